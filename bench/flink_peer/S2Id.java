package peer;

import com.google.common.geometry.S2CellId;
import com.google.common.geometry.S2LatLng;
import org.apache.flink.table.functions.ScalarFunction;

/** The S2 cell of a place as signed decimal text, as Dagger's own function gives it. */
public class S2Id extends ScalarFunction {
  public String eval(Double latitude, Double longitude, Integer level) {
    S2LatLng place = S2LatLng.fromDegrees(latitude, longitude);
    return Long.toString(S2CellId.fromLatLng(place).parent(level).id());
  }
}
